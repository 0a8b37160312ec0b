! ranks: 1 2 4
! Ordered writes: the parts stand in the order of the ranks, whatever their lengths.
      PROGRAM ORDFIL
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INTEGER IERR, ME, NP, FH, I, J, A(20), S(MPI_STATUS_SIZE)
      INTEGER(KIND=MPI_OFFSET_KIND) OFF
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, NP, IERR)
      CALL MPI_FILE_OPEN(MPI_COMM_WORLD, 'ordered.dat',
     &     MPI_MODE_CREATE + MPI_MODE_RDWR + MPI_MODE_DELETE_ON_CLOSE,
     &     MPI_INFO_NULL, FH, IERR)
      DO 10 I = 1, ME + 1
         A(I) = 10*ME + I
   10 CONTINUE
      CALL MPI_FILE_WRITE_ORDERED(FH, A, ME+1, MPI_INTEGER, S, IERR)
      CALL MPI_FILE_GET_POSITION_SHARED(FH, OFF, IERR)
C     The view is of bytes.
      IF (OFF .NE. 4*NP*(NP+1)/2) STOP 1
      CALL MPI_BARRIER(MPI_COMM_WORLD, IERR)
      OFF = 0
      CALL MPI_FILE_SEEK_SHARED(FH, OFF, MPI_SEEK_SET, IERR)
C     The other way round: the first process reads most.
      CALL MPI_FILE_READ_ORDERED(FH, A, NP-ME, MPI_INTEGER, S, IERR)
      IF (ME .EQ. 0) THEN
         IF (A(1) .NE. 1) STOP 2
         IF (NP .GE. 2 .AND. A(2) .NE. 11) STOP 3
         IF (NP .EQ. 4 .AND. A(4) .NE. 21) STOP 4
      END IF
      IF (ME .EQ. NP-1 .AND. A(1) .NE. 10*ME + NP) STOP 5
      CALL MPI_FILE_CLOSE(FH, IERR)
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
