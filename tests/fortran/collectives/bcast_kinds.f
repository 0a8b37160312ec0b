! ranks: 1 2 4
! A broadcast of each basic type.
      PROGRAM BKINDS
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INTEGER IERR, ME, NP, ROOT, I(3)
      REAL R
      DOUBLE PRECISION D
      COMPLEX C
      DOUBLE COMPLEX Z
      LOGICAL L
      CHARACTER*7 S
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, NP, IERR)
      DO 10 ROOT = 0, NP - 1
         I(1) = -1
         I(2) = -1
         I(3) = -1
         R = 0
         D = 0
         C = 0
         Z = 0
         L = .FALSE.
         S = 'nothing'
         IF (ME .EQ. ROOT) THEN
            I(1) = ROOT
            I(2) = 2*ROOT
            R = ROOT + 0.5
            D = ROOT + 0.25D0
            C = CMPLX(ROOT, 1)
            Z = DCMPLX(ROOT, -1)
            L = .TRUE.
            S = 'text '//CHAR(65+ROOT)
         END IF
         CALL MPI_BCAST(I, 2, MPI_INTEGER, ROOT, MPI_COMM_WORLD, IERR)
         CALL MPI_BCAST(R, 1, MPI_REAL, ROOT, MPI_COMM_WORLD, IERR)
         CALL MPI_BCAST(D, 1, MPI_DOUBLE_PRECISION, ROOT,
     &                  MPI_COMM_WORLD, IERR)
         CALL MPI_BCAST(C, 1, MPI_COMPLEX, ROOT, MPI_COMM_WORLD, IERR)
         CALL MPI_BCAST(Z, 1, MPI_DOUBLE_COMPLEX, ROOT, MPI_COMM_WORLD,
     &                  IERR)
         CALL MPI_BCAST(L, 1, MPI_LOGICAL, ROOT, MPI_COMM_WORLD, IERR)
         CALL MPI_BCAST(S, 7, MPI_CHARACTER, ROOT, MPI_COMM_WORLD, IERR)
         IF (I(1) .NE. ROOT .OR. I(2) .NE. 2*ROOT) STOP 1
         IF (I(3) .NE. -1) STOP 2
         IF (R .NE. ROOT + 0.5 .OR. D .NE. ROOT + 0.25D0) STOP 3
         IF (C .NE. CMPLX(ROOT, 1) .OR. Z .NE. DCMPLX(ROOT, -1)) STOP 4
         IF (.NOT. L) STOP 5
         IF (S .NE. 'text '//CHAR(65+ROOT)) STOP 6
   10 CONTINUE
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
